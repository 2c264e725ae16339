package sharding_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/galley-ml/galley/internal/check/sharding"
)

// TestShardy runs facts written for it; two of them are wrong on purpose.
func TestShardy(t *testing.T) {
	var out bytes.Buffer
	if _, err := sharding.Shardy(&out, "testdata/shardy.json", sharding.Quiet); err != nil {
		t.Fatal(err)
	}
	const want = `FAIL  closed by hand: x: got @[a,b], want @[b,a]
propagation: 5 agree, 1 differ, 1 apart
    1 apart: op cholesky does not exist
FAIL  wrong: factors [0.0.0 1.0.0 2.0.0=8(pass) 0.1.0 1.1.0 2.1.0=8(pass)], want [0.0.0 1.1.0 2.0.0=8(pass) 0.1.0 1.0.0 2.1.0=8(pass)]
op_rules: 5 agree, 1 differ, 0 apart
10 passed, 2 failed
`
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestShardyFacts runs all facts where they are at hand; they are not kept here.
func TestShardyFacts(t *testing.T) {
	const path = "../../../shared/data/shardy_vectors.json"
	if _, err := os.Stat(path); err != nil {
		t.Skip("no facts at hand")
	}
	var out bytes.Buffer
	r, err := sharding.Shardy(&out, path, sharding.Quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed()*20 > r.Passed() {
		t.Errorf("%d agree and %d differ: want 95 in 100\n%s", r.Passed(), r.Failed(), out.String())
	}
}
