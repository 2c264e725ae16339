package comm

import "context"

// World is a number of ranks, some of which are in this process. The main program makes it and passes it to
// the code that runs on it. Every process of a job runs the same program, so its worlds are run in the same
// order everywhere.
type World interface {
	// Size returns the number of ranks in all processes.
	Size() int
	// Process returns the number of this process, and Owner that of the process of a rank.
	Process() int
	Owner(rank int) int
	// Run calls worker once for every rank of this process, each on a goroutine of its own, and returns when the
	// workers of all processes have returned. The first failure ends all collectives of the run: an error or
	// panic of a worker (the peers get a *PeerError that names it), calls that do not match (*MismatchError),
	// ranks that wait for each other (*DeadlockError) or the end of ctx, whose cause it wraps. Workers see it as
	// an error of their collective and as the cause of their context. Run returns that failure, joined with the
	// other errors of workers.
	Run(ctx context.Context, worker func(ctx context.Context, c Comm) error) error
	// Stats returns the traffic of a rank of this process in all runs so far.
	Stats(rank int) Stats
	// Close releases the world's resources. No run may be in progress.
	Close() error
}

// Local returns the ranks of a world that are in this process.
func Local(w World) []int {
	var ranks []int
	for rank := range w.Size() {
		if IsLocal(w, rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// IsLocal reports whether a rank is in this process.
func IsLocal(w World, rank int) bool { return w.Owner(rank) == w.Process() }

// Leaders returns the first rank of every process that has one, in the order of those ranks.
func Leaders(w World) []int {
	var ranks []int
	seen := map[int]bool{}
	for rank := range w.Size() {
		if owner := w.Owner(rank); !seen[owner] {
			seen[owner] = true
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
