// Package eager trains op by op in a loop that you write yourself: loss, Backward, Step, ClearGrad.
// Parameters are on one device or on meshes. The results are bit for bit those of compiled steps.
//
//	opt, err := eager.NewOptimizer(model.Params(), optim.AdamW{WeightDecay: 0.1}, eager.Config{ClipNorm: 1})
//	for _, batch := range batches {
//		loss := op.MSELoss(model.Forward(batch.X), batch.Y, "mean")
//		if err := loss.Backward(); err != nil { ... }
//		if err := opt.Step(); err != nil { ... }
//		opt.ClearGrad()
//	}
//
// An error in any op makes the loss invalid, and Backward returns it.
package eager
