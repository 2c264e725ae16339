package jobtest_test

import (
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/job"
	"github.com/galley-ml/galley/job/jobtest"
)

// TestLoopback holds the transport of our own tests to the suite.
func TestLoopback(t *testing.T) {
	jobtest.Run(t, func(_ *testing.T, n int) []job.Transport {
		net := commtest.NewLoopback(n, 20*time.Microsecond)
		var list []job.Transport
		for i := range n {
			list = append(list, net.Transport(i))
		}
		return list
	})
}
