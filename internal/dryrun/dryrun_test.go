package dryrun_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/dryrun"
	"github.com/galley-ml/galley/internal/planfile"
)

// TestOver: a device whose tapes take more than the hardware has is named.
func TestOver(t *testing.T) {
	f := &planfile.File{Cluster: "1x2 H100-SXM"}
	for _, c := range []struct {
		devices []int64
		want    string
	}{{nil, ""}, {[]int64{79e9, 80e9}, ""}, {[]int64{79e9, 81e9}, "device 1 takes 81.00 GB"}} {
		f.Predicted.Devices = c.devices
		got, err := dryrun.Over(f)
		if err != nil || c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v: got %q, %v, want %q", c.devices, got, err, c.want)
		}
	}
}
