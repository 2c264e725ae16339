// Package export writes a strategy as the flags or the config of another training system.
//
// Its one idea: what a system cannot do is said, not dropped. Every writer lists, as comments at the head of
// its text, the parts of the strategy that the system has no word for, and the nearest thing that it has;
// what the system would refuse at its start is an error here. Which names and rules those are was read in the
// systems' sources: tests have the names with the commits, docs/planner.md what was tried.
//
//	text, err := export.Write("megatron", workload, strategy, cluster)
//	// --tensor-model-parallel-size 8 \
//	// --pipeline-model-parallel-size 16 \
//	// …
package export
