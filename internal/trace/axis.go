package trace

import (
	"fmt"
	"math"
	"strings"
)

// unit is how numbers of some size are written.
type unit struct {
	size float64
	name string
}

var (
	secondUnits = []unit{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}
	byteUnits   = []unit{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}}
)

// fit returns the unit in which the number has the fewest digits before the point, but some.
func fit(units []unit, x float64) unit {
	for _, u := range units {
		if x >= u.size {
			return u
		}
	}
	return units[len(units)-1]
}

// Seconds returns a duration for people: 25.5 ms.
func Seconds(x float64) string {
	u := fit(secondUnits, x)
	return number(x/u.size) + " " + u.name
}

// step returns a round number of which at most n fit into length.
func step(length float64, n int) float64 {
	rough := length / float64(n)
	ten := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, k := range []float64{1, 2, 5, 10} {
		if k*ten >= rough*(1-1e-9) {
			return k * ten
		}
	}
	return 10 * ten
}

func number(x float64) string { return fmt.Sprintf("%.4g", x) }

// axis draws the times under the rows.
func (p *painter) axis(bottom int) {
	u := fit(secondUnits, p.end)
	d := step(p.end/u.size, max(2, (p.width-left-right)/90))
	for i := 0; float64(i)*d*u.size <= p.end*(1+1e-9); i++ {
		t := float64(i) * d
		x := p.x(t * u.size)
		p.f("<path d=\"M%v %dv%d\" stroke=\"%s\"/>", x, bottom-rowGap, 5, faint)
		p.f("<text class=\"m n\" x=\"%v\" y=\"%d\">%s</text>\n", x, bottom+15, number(t))
	}
	p.f("<text class=\"n\" x=\"%d\" y=\"%d\">%s</text>\n", p.width-right+10, bottom+15, u.name)
}

// curves draws the curves over the same times.
func (p *painter) curves(top int) {
	most := 0.0
	for _, c := range p.g.Curves {
		for _, at := range c.Points {
			most = max(most, at.Value)
		}
	}
	if most == 0 {
		most = 1
	}
	bottom := top + curveHeight
	y := func(v float64) float64 { return math.Round((float64(bottom)-v/most*curveHeight)*100) / 100 }
	p.f("<text class=\"s\" x=\"%d\" y=\"%d\">%s</text>\n", left, top-14, escape(p.g.CurveTitle))
	u := fit(byteUnits, most)
	d := step(most/u.size, 4)
	for i := 0; float64(i)*d*u.size <= most*(1+1e-9); i++ {
		v := float64(i) * d
		p.f("<path d=\"M%d %vH%d\" stroke=\"%s\"/>", left, y(v*u.size), p.width-right, rule)
		p.f("<text class=\"e n\" x=\"%d\" y=\"%v\">%s %s</text>\n", left-10, y(v*u.size)+4, number(v), u.name)
	}
	for i, c := range p.g.Curves {
		p.curve(c, ramp(i, len(p.g.Curves)), y)
	}
	p.keys(top)
}

// curve draws steps: across to the next time, then up or down.
func (p *painter) curve(c Curve, colour string, y func(float64) float64) {
	if len(c.Points) == 0 {
		return
	}
	var d strings.Builder
	fmt.Fprintf(&d, "M%v %v", p.x(c.Points[0].Time), y(c.Points[0].Value))
	for _, at := range c.Points[1:] {
		fmt.Fprintf(&d, "H%vV%v", p.x(min(at.Time, p.end)), y(at.Value))
	}
	fmt.Fprintf(&d, "H%v", p.x(p.end))
	p.f("<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"><title>%s</title></path>\n", d.String(),
		colour, escape(c.Name))
}

// keys names the curves beside them; where there are too many, the first, the last and some between.
func (p *painter) keys(top int) {
	n := len(p.g.Curves)
	fits := curveHeight / 15
	every := (n + fits - 1) / fits
	line := 0
	for i := 0; i < n; i += every {
		y := top + 9 + 15*line
		p.f("<path d=\"M%d %dh14\" stroke=\"%s\" stroke-width=\"3\"/>", p.width-right+10, y-4, ramp(i, n))
		p.f("<text class=\"n\" x=\"%d\" y=\"%d\">%s</text>\n", p.width-right+29, y, escape(p.g.Curves[i].Name))
		line++
	}
}
