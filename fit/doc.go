// Package fit is the training loop: it takes steps on the batches of a loader, evaluates, writes checkpoints,
// continues from them, and tells callbacks of it. galley.Engine and galley.Trainer fit by it, and so does the
// command galley train; there is no other loop.
//
// Its one idea: what happens between steps is data (Config, Callback), and what takes the steps is a Subject,
// so that a bar on a terminal, a log, early stopping and a signal that ends a run are callbacks and contexts,
// not loops of their own.
//
//	history, err := engine.Fit(ctx, loader, galley.FitConfig{Epochs: 3, SaveDir: "runs/a", Resume: true,
//		Callbacks: []fit.Callback{&fit.EarlyStop{Patience: 2}}})
package fit
