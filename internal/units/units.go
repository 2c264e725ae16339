// Package units writes sizes and times as people read them.
package units

import "fmt"

// Bytes returns a size as people read it.
func Bytes(x float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if x >= u.size {
			return fmt.Sprintf("%.2f %s", x/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f B", x)
}

// Seconds returns a time as people read it.
func Seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.2f s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.2f ms", s*1e3)
	}
	return fmt.Sprintf("%.1f µs", s*1e6)
}
