package galley

import (
	"slices"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/runfacts"
)

// Fact is one thing that makes a run what it is, such as its batch size. Checkpoints keep the facts of their
// run; Resume refuses one of another run, unless it is told what has changed.
type Fact = data.Fact

// OtherRunError is a checkpoint of a run that is not the one that would go on from it.
type OtherRunError = fit.OtherRunError

// facts is those that the trainer was given, and its own.
func (t *Trainer) facts() []Fact {
	return runfacts.Of(slices.Concat(t.c.Facts, t.described), runfacts.Run{Optimizer: t.c.Optimizer,
		Schedule: t.c.Schedule, ClipNorm: t.c.ClipNorm, Seed: t.c.Seed})
}
