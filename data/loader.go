package data

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// Dataset returns samples by index. A sample is one or more tensors: inputs first, then labels.
type Dataset interface {
	Len() int
	Sample(i int) []array.Array
}

// Rows returns a dataset whose sample i is row i of each array.
func Rows(arrays ...array.Array) (Dataset, error) {
	if len(arrays) == 0 {
		return nil, fmt.Errorf("rows: want an array or more")
	}
	for i, a := range arrays {
		if len(a.Shape()) == 0 || a.Shape()[0] != arrays[0].Shape()[0] {
			return nil, fmt.Errorf("rows: array %d has shape %v and array 0 %v: want as many rows", i, a.Shape(),
				arrays[0].Shape())
		}
	}
	return rows(arrays), nil
}

type rows []array.Array

func (r rows) Len() int { return r[0].Shape()[0] }

func (r rows) Sample(i int) []array.Array {
	list := make([]array.Array, len(r))
	for k, a := range r {
		list[k] = a.Rows(i, i+1).Reshape(a.Shape()[1:]...)
	}
	return list
}

// LoaderConfig configures a Loader.
type LoaderConfig struct {
	Batch int    // samples in a batch; at least 1
	Seed  uint64 // chooses the order of each epoch
	Order Order  // of the samples within an epoch; Shuffled by default
	Tail  Tail   // what happens to samples that do not fill a batch
}

// Tail says what to do with the samples at the end of an epoch that do not fill a batch.
type Tail uint8

const (
	// Drop leaves them out; with shuffling, each epoch leaves out other samples.
	Drop Tail = iota
	// Keep returns them as a smaller batch.
	Keep
)

// Loader returns the batches of a dataset by index, so that a run can resume at any step without reading the
// batches before it.
type Loader struct {
	data   Dataset
	config LoaderConfig
}

// NewLoader creates a loader of a dataset.
func NewLoader(d Dataset, c LoaderConfig) (*Loader, error) {
	switch n := d.Len(); {
	case c.Batch < 1:
		return nil, fmt.Errorf("loader: batch: got %d, want at least 1", c.Batch)
	case n == 0:
		return nil, fmt.Errorf("loader: dataset is empty")
	case n < c.Batch && c.Tail == Drop:
		return nil, fmt.Errorf("loader: %d samples do not fill a batch of %d: want batch=%d or less, or Tail: "+
			"data.Keep", n, c.Batch, n)
	}
	return &Loader{data: d, config: c}, nil
}

// Len returns the number of batches in an epoch.
func (l *Loader) Len() int {
	n := l.data.Len() / l.config.Batch
	if l.config.Tail == Keep && l.data.Len()%l.config.Batch > 0 {
		n++
	}
	return n
}

// Batch returns batch i, counted over all epochs: its samples stacked, in a new order in each epoch.
func (l *Loader) Batch(i int) ([]array.Array, error) { return l.Part(i, everyRow) }

func everyRow(int) bool { return true }

// Part is like Batch, but reads only the rows for which own returns true; the others are zero. A process of a
// job does not need the rows of other processes' devices.
func (l *Loader) Part(i int, own func(row int) bool) ([]array.Array, error) {
	epoch, first := i/l.Len(), i%l.Len()*l.config.Batch
	count := min(l.config.Batch, l.data.Len()-first)
	order := newPermutation(uint64(l.data.Len()), l.config.Seed, uint64(epoch))
	var out []array.Array
	for k := range count {
		if !own(k) && (k < count-1 || out != nil) { // the types of the tensors need at least one row
			continue
		}
		at := first + k
		if l.config.Order == Shuffled {
			at = int(order.at(uint64(at)))
		}
		sample := l.data.Sample(at)
		if out == nil {
			for _, a := range sample {
				out = append(out, array.New(a.DType(), append([]int{count}, a.Shape()...)...))
			}
		}
		if err := l.put(out, k, sample); err != nil {
			return nil, fmt.Errorf("loader: sample %d: %w", at, err)
		}
	}
	return out, nil
}

// put writes a sample to row k of a batch.
func (l *Loader) put(out []array.Array, k int, sample []array.Array) error {
	if len(sample) != len(out) {
		return fmt.Errorf("it has %d tensors: want %d, as the batch's first", len(sample), len(out))
	}
	for i, a := range sample {
		row := out[i].Rows(k, k+1)
		if want := out[i].Shape()[1:]; a.DType() != out[i].DType() || !want.Equal(a.Shape()) {
			return fmt.Errorf("tensor %d is %v%v: want %v%v, as the batch's first: pad it", i, a.DType(), a.Shape(),
				out[i].DType(), want)
		}
		copy(row.Bytes(), a.Bytes())
	}
	return nil
}

// Tokens adapts a sampler to a loader for language models: inputs, and labels shifted by one token.
func Tokens(s *Sampler) *TokenLoader { return &TokenLoader{s} }

// TokenLoader returns a sampler's windows as inputs and labels.
type TokenLoader struct{ sampler *Sampler }

// Len returns the number of whole batches in an epoch, at least one.
func (l *TokenLoader) Len() int { return max(1, l.sampler.Windows()/l.sampler.config.Batch) }

// Batch returns the inputs and the labels of a step, both i32[Batch,Seq].
func (l *TokenLoader) Batch(i int) ([]array.Array, error) { return l.Part(i, everyRow) }

// Part is like Batch, but reads only the windows of rows for which own returns true; the others are zero.
func (l *TokenLoader) Part(i int, own func(row int) bool) ([]array.Array, error) {
	windows := l.sampler.Part(int64(i)*int64(l.sampler.config.Batch), own)
	batch, seq := l.sampler.config.Batch, l.sampler.config.Seq
	out := []array.Array{array.New(array.I32, batch, seq), array.New(array.I32, batch, seq)}
	for k := range out {
		array.CopyBox(out[k], []int{0, 0}, windows, []int{0, k}, []int{batch, seq})
	}
	return out, nil
}
