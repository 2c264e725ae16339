package main

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

// TestSharedSize: /dev/shm of a pod has room for what it keeps of the model's state, by the strategy.
func TestSharedSize(t *testing.T) {
	const d, layers, vocab = 2048, 24, 256
	ff := float64((d*8/3 + 15) / 16 * 16)
	params := vocab*d + layers*(4*d*d+3*d*ff+2*d) + d
	for _, test := range []struct {
		hosts string
		n     int
		flags string
		want  float64 // bytes a parameter
	}{
		{"1", 1, "", 36},
		{"2:4", 1, "--mesh=dp=2", 36},
		{"2:4", 8, "--mesh=dp=16 --zero=1", 3 * (4 + 8./2*2)},
		{"4", 1, "--mesh=tp=2,pp=2", 3 * 12. / 4 * 2},
		{"4", 2, "--mesh=dp=2,tp=2,pp=2", 3 * 12. / 2},
	} {
		c := kubernetesCmd{Args: strings.Fields("-- train --dim 2048 --layers 24 --heads 16 " + test.flags)}
		c.Hosts, c.Processes, c.Grace = test.hosts, test.n, 1
		hosts, err := c.parse()
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.sharedSize(hosts)
		want := math.Ceil((test.want*params + float64(test.n)*(256<<20)) / (1 << 30))
		if err != nil || got != strconv.Itoa(int(want))+"Gi" {
			t.Errorf("%s hosts, %s: got %s and %v, want %vGi", test.hosts, test.flags, got, err, want)
		}
	}
	for line, want := range map[string]string{
		"train --model /nowhere": "give it, such as --shared 64Gi", "dump": "want train",
		"train --stepz": "unknown flag"} {
		c := kubernetesCmd{Args: strings.Fields(line)}
		c.Hosts, c.Processes, c.Grace = "1", 1, 1
		hosts, err := c.parse()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.sharedSize(hosts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", line, err, want)
		}
	}
}
