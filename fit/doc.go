// Package fit is the training loop: it takes steps on the batches of a loader, evaluates, writes and resumes
// checkpoints, and calls callbacks. galley.Engine, galley.Trainer and the command galley train all use it;
// there is no other loop.
//
// What happens between steps is data (Config, Callback), and what takes the steps is a Subject. A progress
// bar, a log, early stopping and a signal that ends a run are therefore callbacks and contexts, not loops of
// their own.
//
//	history, err := engine.Fit(ctx, loader, galley.FitConfig{Epochs: 3, SaveDir: "runs/a", Resume: true,
//		Callbacks: []fit.Callback{&fit.EarlyStop{Patience: 2}}})
package fit
