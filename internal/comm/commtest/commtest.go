package commtest

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley/internal/comm"
)

// World runs body on each of n ranks and returns what they report. An implementation whose processes are
// started from outside may return nil for an n that it cannot have.
type World func(n int, body func(comm.Comm) error) error

// check is one thing that worlds of the given sizes must do.
type check struct {
	name  string
	sizes []int
	body  func(c comm.Comm) error
}

// worldSizes are the sizes that matter to trees and splits: one, powers of two and not.
var worldSizes = []int{1, 2, 3, 4, 8}

// Run holds a world to the suite.
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

// everyone returns the group of all ranks, for bodies that have checked it before.
func everyone(c comm.Comm) *comm.Group {
	g, err := c.Group(nil)
	if err != nil {
		panic(err) // a world's own ranks make a group in any implementation
	}
	return g
}
