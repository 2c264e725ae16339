// Package plan prices strategies: how long a training step of a model takes on a cluster, and how much
// memory, for any combination of data, tensor, sequence, context, expert and pipeline parallelism.
//
// Its one idea: a layer is built once from ops with the shapes that one device would have, differentiated,
// and every node is priced by the op's own Work. The rest is what no single op knows: how well a product's
// shape fills the machine, what devices communicate, in which order micro-batches pass the stages, and what
// stays in memory.
//
//	e, err := plan.NewEstimator(w, c, plan.Calibration{})
//	t, err := e.Estimate(strategy.Strategy{DP: 8, TP: 8, PP: 4, MicroBatch: 1, Sequence: true, Zero: 1})
//	t.Step, t.Low, t.High // seconds, and the expected interval
//
// Pieces of a layer are priced once for each way to split them and cached, so that further estimates take
// microseconds.
package plan
