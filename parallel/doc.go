// Package parallel says how the layers of a model are spread over devices: by their names, which galley's
// Parallelize takes, or by describing a pipeline layer by layer, which galley's NewPipelineLayer takes.
//
//	plan := parallel.Plan{Strategy: galley.Strategy{DP: 2, TP: 2}, Layers: []parallel.LayerPlan{
//		parallel.On("*.self_attn.*_proj", parallel.ColWise{}),
//		parallel.On("*.mlp.down_proj", parallel.RowWise{}),
//	}}
package parallel
