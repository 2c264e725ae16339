// Package search finds the best strategy for a training run on a cluster: the degrees of parallelism, the
// schedule, sharding, micro-batch, recomputation and offloading, the division into stages, and the device of
// each rank.
//
// Its one idea is branch and bound over divisions of the devices. A cell fixes what determines the time of
// computation: tensor, context, expert and pipeline parallelism and the micro-batch. It has a lower bound,
// because no schedule, sharding, recomputation or offloading makes its devices compute less. Cells are
// visited in the order of their bounds, lowest first; within a cell, a bound without simulation precedes each
// price; and the search ends at the first bound above the best plan. So the first plan is optimal in the
// space, not a heuristic guess; if something was skipped, the gap bounds what was missed.
//
//	a, err := search.Find(search.Config{Workload: w, Cluster: c}, plan.Default(c, w))
//	a.Plans[0].Strategy            // dp=64 tp=1 pp=1 micro_batch=1 zero=2
//	a.Gap()                        // 0: there is none better under the cost model
//	search.Why(a.Plans[0], a.Plans[1]) // why the second plan is slower
//	a.Misfit                       // if nothing fits: what is missing, and the smallest change that fits
//
// On mixed clusters, hosts of one type are placed together along the pipeline, stages are balanced by the
// speed of their devices (Balance), and ranks are mapped to devices by the traffic of the plan (Map).
//
// Files, bottom up: space is what is searched and pin restricts it; partition and stages divide layers;
// search and worker are the branch and bound; arrange, traffic and mapping place ranks; find ties them
// together; why, misfit and timeline explain.
package search
