package fit

import (
	"fmt"
	"io"
)

// Config configures a fit: how long to train, and when to evaluate, save and log. The zero value trains for
// one epoch and prints nothing.
type Config struct {
	// Epochs is the number of passes over the data; 0 means 1. Steps, if set, is the number of steps instead.
	Epochs, Steps int
	// Valid, if set, is evaluated every ValidEvery steps (0 means after each epoch and at the end) on its
	// first ValidBatches batches (0 means all).
	Valid                    Loader
	ValidEvery, ValidBatches int
	// SaveDir, if set, receives a checkpoint every SaveEvery steps (0 means after each epoch) and at the end,
	// however training ends. Kept are the newest Keep (0 means 3), those of steps that are multiples of
	// KeepEvery, and the one with the lowest validation loss. A checkpoint that cannot be written is reported
	// and retried; training continues.
	SaveDir                    string
	SaveEvery, Keep, KeepEvery int
	// Resume continues from the newest valid checkpoint of SaveDir, whatever strategy wrote it, or starts
	// from scratch if there is none. Epochs and Steps then count from the very first step.
	Resume bool
	// ResumeDir, if set, is the directory to resume from instead of SaveDir, for example the snapshots of an
	// elastic job.
	ResumeDir string
	// Fence, if set, numbers this start of a job that can be restarted, such as the epoch of an elastic job:
	// leftover processes of an earlier start can no longer write checkpoints.
	Fence int
	// From, if set, is the step of the checkpoint to resume from; later ones are deleted.
	From int64
	// Changed lists the names of facts that may differ from those of the checkpoint's run.
	Changed []string
	// Prefetch is the number of batches prepared ahead in another goroutine, never during an evaluation; 0
	// means 2, negative means none.
	Prefetch int
	// Overlap starts the next step before the metrics of the current one are read, so that a backend never
	// waits for the host. Callbacks then see a step after the next one has started. Evaluations, checkpoints
	// and epoch ends still follow their step directly.
	Overlap bool
	// Log, if set, receives a line every LogEvery steps; 0 means 10.
	Log      io.Writer
	LogEvery int
	// Callbacks are called after those of the engine.
	Callbacks []Callback
}

// check returns an error for contradictory settings.
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
