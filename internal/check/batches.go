package check

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/models"
)

// batches holds the batches of each step of a recorded training, with the step as first dim.
type batches struct{ inputs, labels array.Array }

// readBatches reads inputs and labels, or windows of ids in which each token predicts the next.
func readBatches(file *safetensors.File, steps int) (b batches, err error) {
	if _, _, ok := file.Type("inputs"); ok {
		if b.inputs, err = file.Read("inputs"); err == nil {
			b.labels, err = file.Read("labels")
		}
	} else {
		b, err = readWindows(file)
	}
	if err != nil {
		return b, err
	}
	in, out := b.inputs.Shape(), b.labels.Shape()
	if steps < 1 || len(in) < 3 || len(out) < 2 || in[0] < steps || out[0] < steps || in[1] != out[1] {
		return b, fmt.Errorf("reference.safetensors: inputs are %v, labels %v and losses %d: "+
			"want [steps, batch, ...] for one step and more", in, out, steps)
	}
	return b, nil
}

func readWindows(file *safetensors.File) (b batches, err error) {
	ids, err := file.Read("ids")
	if err != nil {
		return b, err
	}
	s := ids.Shape()
	if len(s) != 3 || s[2] < 2 || ids.DType() != array.I32 {
		return b, fmt.Errorf("reference.safetensors: ids are %v%v: want i32 [steps, batch, seq+1]",
			ids.DType(), s)
	}
	var in, out []int32
	seq := s[2] - 1
	for rest := array.Data[int32](ids); len(rest) > 0; rest = rest[s[2]:] {
		in, out = append(in, rest[:seq]...), append(out, rest[1:s[2]]...)
	}
	return batches{array.FromSlice(in, s[0], s[1], seq), array.FromSlice(out, s[0], s[1], seq)}, nil
}

// seq returns the length of a sequence.
func (b batches) seq() int { return b.inputs.Shape()[2] }

// at returns the inputs and labels of one step.
func (b batches) at(step int) (parts []array.Array) {
	for _, a := range []array.Array{b.inputs, b.labels} {
		parts = append(parts, a.Rows(step, step+1).Reshape(a.Shape()[1:]...))
	}
	return parts
}

// types returns the types of a step's inputs and labels.
func (b batches) types() (types []ir.Type) {
	for _, a := range []array.Array{b.inputs, b.labels} {
		types = append(types, ir.Type{DType: a.DType(), Shape: a.Shape()[1:]})
	}
	return types
}

// within returns an error that names an id or label out of range for a model config.
func (b batches) within(c models.Config) error {
	labels := c.Vocab
	switch c.Task {
	case models.Classify, models.ClassifyTokens:
		labels = c.Labels
	case models.Answer:
		labels = math.MaxInt32 // positions after a sequence are ignored
	}
	if err := inRange("inputs", b.inputs, c.Vocab, false); err != nil {
		return err
	}
	return inRange("labels", b.labels, labels, true)
}

// inRange returns an error for integers other than 0 to n-1; ignored also allows the ignored label.
func inRange(name string, a array.Array, n int, ignored bool) error {
	if a.DType() != array.I32 {
		return nil // pixels and other floats
	}
	for i, x := range array.Data[int32](a) {
		if x >= 0 && int(x) < n || ignored && x == models.IgnoreLabel {
			continue
		}
		step := a.Len() / a.Shape()[0]
		row := step / a.Shape()[1]
		return fmt.Errorf("reference.safetensors: %s: step %d, row %d, place %d: got %d, want 0 to %d%s", name,
			i/step, i%step/row, i%row, x, n-1, map[bool]string{true: ", or -100 for none"}[ignored])
	}
	return nil
}
