package bench

import (
	"fmt"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// DecodeConfig is a generation to time.
type DecodeConfig struct {
	Model   models.Config
	Weights string
	// Read and Grouped load the weights, as in engine.Config; nil means random ones.
	Read    func(p *nn.Param) (array.Array, error)
	Grouped func(p *nn.Param) (m quant.Matrix, ok bool, err error)
	// Sequences is the batch size; Prompt is the number of tokens before the timed ones.
	Sequences, Prompt int
	Threads, Runs     int
}

// DecodeResult is tokens per second compared with the limit by memory bandwidth, measured in turns.
type DecodeResult struct {
	Weights   string  `json:"weights"`
	Threads   int     `json:"threads"`
	Sequences int     `json:"sequences"`
	Bytes     int     `json:"bytes"`
	Prefill   float64 `json:"prefill_tokens_per_s"`
	Tokens    float64 `json:"tokens_per_s"`
	Read      float64 `json:"read_gb_per_s"`
	Share     float64 `json:"share_of_read"`
	// CPU is the processor time of a token, and CPUShare the share computed from it: both measure the work
	// itself on a machine with other load. Threads that wait for each other count as working.
	CPU      float64 `json:"cpu_ms_per_token"`
	CPUShare float64 `json:"cpu_share_of_read"`
}

func (r DecodeResult) String() string {
	return fmt.Sprintf("%-5s %d thread(s), %d sequence(s): prefill %7.1f tokens/s, decode %7.1f tokens/s; "+
		"%6.1f MB a step at %5.2f of the %5.1f GB/s of a read; by processor time %.2f ms a token, %.2f",
		r.Weights, r.Threads, r.Sequences, r.Prefill, r.Tokens, float64(r.Bytes)/1e6, r.Share, r.Read, r.CPU,
		r.CPUShare)
}

// Decode times a model with random weights. Memory reads and steps are timed in turns, so that both see the
// same machine; the medians are compared.
func Decode(c DecodeConfig) (DecodeResult, error) {
	m, err := models.New(c.Model, nn.Config{})
	if err != nil {
		return DecodeResult{}, err
	}
	if c.Read == nil {
		c.Read = noise
	}
	p, err := paged.New(m, paged.Config{Weights: packed.Format(c.Weights), Threads: c.Threads, Read: c.Read,
		Grouped: c.Grouped})
	if err != nil {
		return DecodeResult{}, err
	}
	defer p.Close()
	d := newDecoding(p, c)
	prefill, err := measure(0, 1, d.prompt)
	if err != nil {
		return DecodeResult{}, err
	}
	reader := newReading(p.Pool())
	var steps, reads []float64
	var stepCPU, readCPU float64
	for range c.Runs {
		before := CPUSeconds()
		reads = append(reads, reader.time())
		between, start := CPUSeconds(), time.Now()
		d.step()
		steps = append(steps, milliseconds(time.Since(start)))
		readCPU, stepCPU = readCPU+between-before, stepCPU+CPUSeconds()-between
	}
	step, read := middle(steps), float64(reader.bytes())/middle(reads)/1e6
	r := DecodeResult{Weights: c.Weights, Threads: p.Pool().Threads(), Sequences: c.Sequences,
		Bytes: p.StepBytes(), Prefill: float64(c.Prompt*c.Sequences) / prefill.BestMS * 1e3,
		Tokens: float64(c.Sequences) / step * 1e3, Read: read}
	r.Share = float64(r.Bytes) / step / 1e6 / read
	r.CPU = stepCPU * 1e3 / float64(c.Runs*c.Sequences)
	if stepCPU > 0 {
		r.CPUShare = float64(r.Bytes) / stepCPU * readCPU / float64(reader.bytes())
	}
	return r, nil
}

// noise returns a parameter of small pseudo-random numbers, in bfloat16.
func noise(p *nn.Param) (array.Array, error) {
	a := array.New(array.BF16, p.Type.Shape...)
	x := array.Raw[uint16](a)
	s := uint32(len(p.Name))*2654435761 + 1
	for i := range x {
		s = s*1664525 + 1013904223
		x[i] = uint16(s>>16&0x80ff | 0x3c80) // about a hundredth, of either sign
	}
	return a, nil
}

// decoding is growing sequences.
type decoding struct {
	run  *paged.Step
	seqs []paged.Sequence
}

func newDecoding(p *paged.Model, c DecodeConfig) *decoding {
	each := (c.Prompt+c.Runs)/paged.PageTokens + 1
	d := &decoding{run: paged.NewStep(p, paged.NewCache(p, each*c.Sequences), max(c.Sequences, c.Prompt))}
	for i := range c.Sequences {
		q := paged.Sequence{Tokens: make([]int32, c.Prompt), Want: 1}
		for j := range q.Tokens {
			q.Tokens[j] = int32((7*i + 31*j) % c.Model.Vocab)
		}
		for j := range each {
			q.Pages = append(q.Pages, int32(i*each+j))
		}
		d.seqs = append(d.seqs, q)
	}
	return d
}

// prompt computes the prompts, one after the other.
func (d *decoding) prompt() error {
	for i := range d.seqs {
		q := &d.seqs[i]
		d.run.Run(d.seqs[i : i+1])
		q.Start, q.Tokens = len(q.Tokens), []int32{1}
	}
	return nil
}

// step computes one token of each.
func (d *decoding) step() {
	d.run.Run(d.seqs)
	for i := range d.seqs {
		d.seqs[i].Start++
	}
}

// reading is memory that is summed, larger than caches.
type reading struct {
	pool *kernel.Pool
	x    []float32
	sums []float32
}

const readParts = 64

func newReading(p *kernel.Pool) *reading {
	r := &reading{pool: p, x: kernel.MakeLarge[float32](64 << 20), sums: make([]float32, readParts)}
	for i := range r.x {
		r.x[i] = 1
	}
	return r
}

func (r *reading) bytes() int { return 4 * len(r.x) }

// time returns the milliseconds that reading all of it takes.
func (r *reading) time() float64 {
	start := time.Now()
	n := len(r.x) / readParts
	r.pool.Run(readParts, func(i int) { r.sums[i] = kernel.MaxOf(r.x[i*n : (i+1)*n]) })
	return milliseconds(time.Since(start))
}
