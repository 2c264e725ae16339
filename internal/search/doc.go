// Package search finds how to spread a training run over a cluster: the division of the devices, the
// schedule, sharding, micro-batch, what is computed again and what is offloaded, the cut into stages, and the
// device of each rank.
//
// Its one idea is branch and bound over divisions of the devices. What decides how long computing takes,
// tensor, context, expert and pipeline parallelism and the micro-batch, is a cell, and a cell has a floor: no
// schedule, sharding or relief of memory makes its devices compute less. Cells are looked into by their
// floors, lowest first; inside, a bound without simulation comes before each price; and the search ends at
// the first floor above what was found. So the first plan is the best of the space, not a good guess, and
// where something was left out the gap says how much that may be.
//
//	a, err := search.Find(search.Config{Workload: w, Cluster: c}, plan.Default(c, w))
//	a.Plans[0].Strategy            // dp=64 tp=1 pp=1 micro_batch=1 zero=2
//	a.Gap()                        // 0: there is none better under the cost model
//	search.Why(a.Plans[0], a.Plans[1]) // what the next one loses
//	a.Misfit                       // where nothing fits: what is missing, and the smallest change that fits
//
// On mixed clusters hosts of a type are put together along the pipeline, stages are cut by what their devices
// take (Balance), and ranks are mapped to devices by the traffic of the plan (Map).
//
// Files, from the ground up: space is what is searched and pin restricts it; partition and stages cut layers;
// search and worker are the branch and bound; arrange, traffic and mapping place ranks; find ties them
// together; why, misfit and timeline explain.
package search
