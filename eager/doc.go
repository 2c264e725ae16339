// Package eager trains op by op, by the loop that people write: the loss of a batch, Backward, Step,
// ClearGrad. Parameters are on one device or on meshes; the numbers are those of compiled steps.
//
//	opt, err := eager.NewOptimizer(model.Params(), optim.AdamW{WeightDecay: 0.1}, eager.Config{ClipNorm: 1})
//	for _, batch := range batches {
//		loss := op.MSELoss(model.Forward(batch.X), batch.Y, "mean")
//		if err := loss.Backward(); err != nil { ... }
//		if err := opt.Step(); err != nil { ... }
//		opt.ClearGrad()
//	}
//
// Mistakes of ops are in the loss, and Backward returns them.
package eager
