package probe

import "github.com/galley-ml/galley/internal/cluster"

// usage is what a process has had of the machine so far, in seconds: its threads have Ran, and have Waited
// for a processor while they could have run.
type usage struct{ Ran, Waited float64 }

// alone returns what a step would have taken had no other program run, by what it took on the clock and what
// its process has had meanwhile. Go starts no more threads than there are processors, so those that wait do
// so for others' sake: without these the step would take the part of its time for which they ran. Some
// threads that wait have nothing to do, so it is never less than all processors would take for what has run.
func (u usage) alone(seconds float64) float64 {
	if u.Ran <= 0 || u.Waited <= 0 {
		return seconds
	}
	return min(seconds, max(u.Ran/float64(cluster.Cores()), seconds*u.Ran/(u.Ran+u.Waited)))
}
