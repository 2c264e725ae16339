package probe

import "github.com/galley-ml/galley/internal/cluster"

// usage is the processor time of a process so far, in seconds: its threads have Ran, and have Waited for a
// processor while they were ready to run.
type usage struct{ Ran, Waited float64 }

// alone returns the time that a step would have taken without other programs, from its wall-clock time and
// the process's usage meanwhile. Go starts no more threads than there are processors, so ready threads wait
// only because of other programs: without these the step would take the share of its time in which its
// threads ran. Some waiting threads have nothing to do, so it is never less than the time that all processors
// would need for the work done.
func (u usage) alone(seconds float64) float64 {
	if u.Ran <= 0 || u.Waited <= 0 {
		return seconds
	}
	return min(seconds, max(u.Ran/float64(cluster.Cores()), seconds*u.Ran/(u.Ran+u.Waited)))
}
