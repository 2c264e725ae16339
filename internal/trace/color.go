package trace

import (
	"fmt"
	"math"
	"strings"
)

// escape makes text fit for XML: markup is quoted, and what XML cannot hold is replaced.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' && r != '\n' || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

// textWidth estimates how wide a sans-serif text is; digits are about 0.58 of their size.
func textWidth(s string, size float64) float64 { return 0.58 * size * float64(len([]rune(s))) }

// rgb reads #rrggbb; anything else is grey.
func rgb(colour string) [3]float64 {
	var r, g, b uint8
	if n, err := fmt.Sscanf(colour, "#%02x%02x%02x", &r, &g, &b); n != 3 || err != nil {
		return [3]float64{200, 200, 200}
	}
	return [3]float64{float64(r), float64(g), float64(b)}
}

func hex(c [3]float64) string {
	return fmt.Sprintf("#%02x%02x%02x", uint8(math.Round(c[0])), uint8(math.Round(c[1])),
		uint8(math.Round(c[2])))
}

// Mix returns a colour between two: all of the first at 0, all of the second at 1.
func Mix(a, b string, t float64) string {
	x, y := rgb(a), rgb(b)
	for i := range x {
		x[i] += (y[i] - x[i]) * t
	}
	return hex(x)
}

// darker returns the colour of a box's edge.
func darker(fill string) string { return Mix(fill, "#000000", 0.28) }

// ramp returns the i-th of n colours that go from dark blue to orange by way of teal: ranks have an order.
func ramp(i, n int) string {
	stops := []string{"#1d3f8f", "#16808c", "#6a9a2d", "#d9820f"}
	if n < 2 {
		return stops[0]
	}
	t := float64(i) / float64(n-1) * float64(len(stops)-1)
	k := min(int(t), len(stops)-2)
	return Mix(stops[k], stops[k+1], t-float64(k))
}
