//go:build cgo && linux

package xla

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/process"
)

// TestValues: plugins of several processes find each other by what the processes put, and a plugin that asks
// without a job is told that nobody answers.
func TestValues(t *testing.T) {
	path := fake(t)
	options := func(node, nodes int) map[string]any {
		return map[string]any{"num_nodes": int64(nodes), "node_id": int64(node)}
	}
	const n = 3
	net := commtest.NewLoopback(n, 0)
	var all sync.WaitGroup
	for i := range n {
		p := process.Join(net.Transport(i))
		all.Go(func() {
			b, err := Open(Config{Plugin: path, Options: options(i, n), Values: p})
			if err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	_, err := Open(Config{Plugin: path, Options: options(0, 2)})
	if !strings.Contains(fmt.Sprint(err), "no key-value callbacks") {
		t.Errorf("without values: got %v", err)
	}
}
