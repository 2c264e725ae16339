package commtest

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley/internal/comm"
)

// World runs body on each of n ranks and returns their errors. An implementation whose processes are started
// by an outside launcher may return nil for an n that it cannot provide.
type World func(n int, body func(comm.Comm) error) error

// check is one test, and the world sizes that it runs on.
type check struct {
	name  string
	sizes []int
	body  func(c comm.Comm) error
}

// worldSizes are the sizes that matter to trees and splits: one, powers of two and not.
var worldSizes = []int{1, 2, 3, 4, 8}

// Run runs the conformance suite on a world.
func Run(t *testing.T, world World) {
	t.Helper()
	for _, list := range [][]check{reduceChecks(), moveChecks(), messageChecks(), groupChecks(),
		programChecks()} {
		for _, c := range list {
			for _, n := range c.sizes {
				t.Run(fmt.Sprintf("%s/%d", c.name, n), func(t *testing.T) {
					if err := world(n, c.body); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// everyone returns the group of all ranks; it panics on errors, since other checks cover these.
func everyone(c comm.Comm) *comm.Group {
	g, err := c.Group(nil)
	if err != nil {
		panic(err) // all ranks of the world form a valid group in any implementation
	}
	return g
}
