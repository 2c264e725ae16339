package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

// unit is a suffix and its factor.
type unit struct {
	suffix string
	scale  float64
}

// Longer suffixes are first, so that GB/s is not parsed as a number of seconds.
var (
	byteUnits = []unit{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3},
		{"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}}
	// A plain G is a network's gigabits: 400G is 50 GB/s.
	speedUnits = []unit{{"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"KB/s", 1e3}, {"B/s", 1},
		{"Tb/s", 1e12 / 8}, {"Gb/s", 1e9 / 8}, {"Mb/s", 1e6 / 8}, {"T", 1e12 / 8}, {"G", 1e9 / 8}, {"M", 1e6 / 8}}
	// Networks are printed in bits, everything else in bytes.
	networkUnits = []unit{{"G", 1e9 / 8}, {"B/s", 1}}
	memoryUnits  = speedUnits[:5]
	rateUnits    = []unit{{"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"", 1}}
	timeUnits    = []unit{{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}}
)

// measure parses a number with one of the units.
func measure(s string, units []unit) (float64, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil {
			continue
		}
		if x *= u.scale; bad(x) {
			return 0, fmt.Errorf("%q: want a finite number that is not negative", s)
		}
		return x, nil
	}
	var names []string
	for _, u := range units {
		if u.suffix != "" {
			names = append(names, u.suffix)
		}
	}
	return 0, fmt.Errorf("%q: want a number and one of %s", s, strings.Join(names, ", "))
}

// Bytes parses a number of bytes with its unit: 5GB, 512MiB.
func Bytes(s string) (float64, error) { return measure(s, byteUnits) }

// format prints x in the unit with the shortest number of at least one that parses back to x exactly.
func format(x float64, units []unit) string {
	best := ""
	for _, u := range units {
		s := strconv.FormatFloat(x/u.scale, 'f', -1, 64) + u.suffix
		if back, err := measure(s, units); err != nil || back != x || x < u.scale {
			continue
		}
		if best == "" || len(s) < len(best) {
			best = s
		}
	}
	if best == "" { // no unit represents it without rounding: use the plain one with all digits
		u := units[len(units)-1]
		for _, v := range units {
			if v.scale == 1 {
				u = v
			}
		}
		best = strconv.FormatFloat(x/u.scale, 'g', -1, 64) + u.suffix
	}
	return best
}
