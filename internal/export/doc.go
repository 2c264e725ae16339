// Package export writes a strategy as the flags or the config of another training system.
//
// What a system does not support is reported, not dropped. Every writer lists, as comments at the top of its
// text, the parts of the strategy that the system has no setting for, and the nearest alternative; what the
// system would reject at its start is an error here. The names and rules are from the systems' sources: tests
// have the names with the commits, docs/planner.md what was tried.
//
//	text, err := export.Write("megatron", workload, strategy, cluster)
//	// --tensor-model-parallel-size 8 \
//	// --pipeline-model-parallel-size 16 \
//	// …
package export
