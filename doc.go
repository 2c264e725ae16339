// Package galley trains and serves large models on many devices from single-device code.
//
// You write a model as functions of tensors. The same function runs eagerly, op by op, or is traced into a
// program that is differentiated, optimised, distributed and compiled as a whole. Both give the same bits.
//
//	d := galley.CPU(galley.Config{})
//	s := d.NewSession()
//	x := s.Tensor(array.FromSlice([]float32{1, 2, 3}, 3)).Track()
//	y := op.Sum(op.Mul(op.Exp(x), x))
//	g := galley.Grad(y, x)[0]                       // eᵡ(1+x)
//
// A Strategy distributes training over devices without changing the losses:
//
//	e, err := galley.NewEngine(galley.EngineConfig{
//		Model: galley.Language(model), Strategy: &galley.Strategy{DP: 2, TP: 2, PP: 2, Zero: 1},
//	})
//	fit := galley.FitConfig{Epochs: 3, SaveDir: "runs/a", Resume: true}
//	history, err := e.Fit(ctx, data.Tokens(sampler), fit)
//
// This package by topic:
//
//	sessions and programs   CPU, Session, Tensor, Trace, Grad, Compile, Distribute
//	models                  Model, Language, ModelFunc, Loss, Metric, SaveState, LoadState
//	training                Trainer, Engine, ToStatic, PipelineLayer, Parallelize, Optimizer
//	plans                   Strategy, Plan, LoadPlan, Auto, Price, PlanFile, Cost, StepPlan, Forecast
//	checkpoints             Checkpoints, Resumed, Fact
//	errors                  BugError, DivergedError, OtherRunError, ErrNoCheckpoint
//
// Related packages:
//
//	op, nn, optim, models   tensor ops, layers, optimizers, model families
//	data, tokenizer         datasets, loaders, tokenizers
//	strategy, mesh          degrees of parallelism; meshes, placements and specs
//	fit, cost               the training loop and its callbacks; the cost of a step
//	dtensor, eager          eager tensors on meshes; training loops that you write yourself
//	parallel, distribute    parallelization plans by layer name; programs on meshes
//	job, serve              several processes as one job; an OpenAI-compatible server
//
// ARCHITECTURE.md explains how Galley is built and why.
package galley
