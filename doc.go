// Package galley trains large models on many devices from single-device code.
//
// You write a model as functions of tensors. The same function runs eagerly, op by op, or is traced into a
// program that is differentiated, optimised, planned and compiled as a whole; the numbers are the same.
//
//	d := galley.CPU(galley.Config{})
//	s := d.NewSession()
//	x := s.Tensor(array.FromSlice([]float32{1, 2, 3}, 3)).Track()
//	y := op.Sum(op.Mul(op.Exp(x), x))
//	g := galley.Grad(y, x)[0]                       // eᵡ(1+x)
//
// A Strategy spreads training over devices, with the losses of one. ToStatic compiles a model for it,
// Parallelize plans it by the names of layers, a PipelineLayer is made of layers' descriptions, and an Engine
// trains, evaluates and predicts:
//
//	e, err := galley.NewEngine(galley.EngineConfig{
//		Model: galley.Language(model), Strategy: &galley.Strategy{DP: 2, TP: 2, PP: 2, Zero: 1},
//	})
//	fit := galley.FitConfig{Epochs: 3, SaveDir: "runs/a", Resume: true}
//	history, err := e.Fit(ctx, data.Tokens(sampler), fit)
//
// What is here, by topic:
//
//	sessions and programs   CPU, Session, Tensor, Trace, Grad, Compile, Distribute
//	models                  Model, Language, ModelFunc, Loss, Metric, SaveState, LoadState
//	training                Trainer, Engine, ToStatic, PipelineLayer, Parallelize, Optimizer
//	plans                   Strategy, Plan, LoadPlan, Auto, Price, PlanFile, Cost, StepPlan, Forecast
//	checkpoints             Checkpoints, Resumed, Fact
//	errors                  BugError, DivergedError, OtherRunError, ErrNoCheckpoint
//
// Beside it: model has what is trained and its losses, strategy says what a Strategy's fields mean and parses
// one, cost what a step takes, fit has the training loop and its callbacks, parallel plans by the names of
// layers and pipelines of layers, dtensor eager tensors on meshes, job several processes that train as one.
// ARCHITECTURE.md tells how it is built; package op lists what tensors can do, nn and models what is made of
// them.
package galley
