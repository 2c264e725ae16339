// Package parallel describes how the layers of a model are distributed over devices: by layer name, for
// galley.Parallelize, or as a pipeline described layer by layer, for galley.NewPipelineLayer.
//
//	plan := parallel.Plan{Strategy: galley.Strategy{DP: 2, TP: 2}, Layers: []parallel.LayerPlan{
//		parallel.On("*.self_attn.*_proj", parallel.ColWise{}),
//		parallel.On("*.mlp.down_proj", parallel.RowWise{}),
//	}}
package parallel
