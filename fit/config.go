package fit

import (
	"fmt"
	"io"
)

// Config says how long to train, and what happens on the way. The zero value is one epoch in silence.
type Config struct {
	// Epochs is how often the data is gone through; 0 means 1. Steps, if set, is how many steps are taken in
	// place of whole epochs.
	Epochs, Steps int
	// Valid, if set, is evaluated every ValidEvery steps, 0 means after each epoch and at the end, on its
	// first ValidBatches; 0 means all.
	Valid                    Loader
	ValidEvery, ValidBatches int
	// SaveDir, if set, gets a checkpoint every SaveEvery steps, 0 means after each epoch, and at the end,
	// however it comes. The newest Keep stay, 0 means 3; so do those of steps that KeepEvery divides, if set,
	// and the one with the least loss of Valid. One that cannot be written is told of and tried again; it
	// does not end training.
	SaveDir                    string
	SaveEvery, Keep, KeepEvery int
	// Resume continues from the newest good checkpoint of SaveDir, under this or any other strategy; where
	// there is none yet, training begins. Epochs and Steps then count from the very first step.
	Resume bool
	// ResumeDir, if set, is the directory to resume from in place of SaveDir: one that others write, such as
	// the snapshots of an elastic job.
	ResumeDir string
	// Fence, if set, is the number of this start of a job that is started again, such as an elastic job's
	// epoch: what is left of an earlier one writes no checkpoints any more.
	Fence int
	// From, if set, is the step of the checkpoint to resume from; later ones are removed.
	From int64
	// Changed is what may be other than in the run that wrote the checkpoint, by the names of facts.
	Changed []string
	// Prefetch is how many batches are made ahead of the step, in another goroutine, one at a time and never
	// during an evaluation; 0 means 2, less than 0 none.
	Prefetch int
	// Overlap starts the next step before the metrics of one are read, so that a backend never waits for the
	// host: callbacks are notified of a step when the next one has begun. Evaluations, checkpoints and the
	// ends of epochs still come right after their step.
	Overlap bool
	// Log, if set, gets a line every LogEvery steps; 0 means 10.
	Log      io.Writer
	LogEvery int
	// Callbacks receive what happens, after the engine's own.
	Callbacks []Callback
}

// check refuses what cannot be meant.
func (c Config) check(train Loader) error {
	if _, err := Count("fit", train, 0); err != nil {
		return err
	}
	for _, x := range []struct {
		name string
		n    int
	}{{"Epochs", c.Epochs}, {"Steps", c.Steps}, {"ValidEvery", c.ValidEvery}, {"ValidBatches",
		c.ValidBatches}, {"SaveEvery", c.SaveEvery}, {"Keep", c.Keep}, {"KeepEvery", c.KeepEvery},
		{"From", int(c.From)}, {"LogEvery", c.LogEvery}} {
		if x.n < 0 {
			return fmt.Errorf("fit: %s is %d: want 0 or more", x.name, x.n)
		}
	}
	if c.Epochs > 0 && c.Steps > 0 {
		return fmt.Errorf("fit: both Epochs and Steps say how long to train: leave one of them out")
	}
	if c.SaveDir == "" && (c.Resume && c.ResumeDir == "" || c.SaveEvery > 0 || c.KeepEvery > 0) {
		return fmt.Errorf("fit: Resume, SaveEvery and KeepEvery need SaveDir: say where checkpoints are")
	}
	if c.ResumeDir != "" && !c.Resume {
		return fmt.Errorf("fit: ResumeDir is for Resume")
	}
	if !c.Resume && (c.From > 0 || len(c.Changed) > 0) {
		return fmt.Errorf("fit: From and Changed are for Resume")
	}
	return nil
}
