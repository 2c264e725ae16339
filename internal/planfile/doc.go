// Package planfile keeps plans as files: YAML that people read, edit and compare, and that a run can trust.
//
// Its one idea: a file names what it is for. It holds the workload, the cluster, the strategy and what was
// predicted of it, and a key: a hash of the program, the shapes and the cluster. A run compares the key with
// its own, so that a plan that was made for something else is refused, with what differs, before anything
// starts.
//
//	f := planfile.New(workload, cluster, search.Plan{…})
//	err := f.Save("plan.yaml")
//	g, err := planfile.Load("plan.yaml") // line and column of a mistake
//	err = g.For(workload, cluster)       // what is stale about it
package planfile
