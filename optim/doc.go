// Package optim has optimizers and learning-rate schedules. Optimizers are stateless functions of tensors:
// the same code updates eager parameters and is traced into compiled training steps.
//
//	opt := optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: 0.1}
//	p, slots = opt.Update(p, grad, slots, optim.Step{LR: lr, Count: count, Scale: clip}) // for each parameter
package optim
