// Package optim has optimizers and learning-rate schedules. Optimizers are stateless functions of tensors:
// the same code updates eager parameters and is traced into compiled training steps.
//
//	opt := optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: 0.1}
//	next, state := opt.Update(params, grads, state, optim.Step{LR: lr, Count: count, Scale: clip})
package optim
