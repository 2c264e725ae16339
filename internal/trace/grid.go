package trace

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// Grid is a picture of what several rows do over time, with curves below it. Times are seconds.
type Grid struct {
	Title, Note string
	Classes     []Class
	Rows        []Row
	// CurveTitle heads the curves; they are drawn if there are any. Curves are bytes over time.
	CurveTitle string
	Curves     []Curve
	// Width is the picture's width; zero chooses one at which boxes can be read.
	Width int
}

// Class is a kind of box, for the legend. Fill is a light colour, such as #9ecae1: text on it is dark.
type Class struct{ Name, Fill string }

// Row is one line of boxes, in order. Note is set to its right.
type Row struct {
	Name, Note string
	Boxes      []Box
}

// Box is something that takes time. Tip shows when a pointer rests on it.
type Box struct {
	Start, End float64
	Text, Tip  string
	Class      int
	Lane       Lane
}

// Lane is the part of its row's height that a box takes.
type Lane uint8

// Two boxes at one time are in the upper and the lower half.
const (
	Whole Lane = iota
	Upper
	Lower
)

// Curve is a quantity that changes in steps.
type Curve struct {
	Name   string
	Points []Point
}

// Point is the value from a time on.
type Point struct{ Time, Value float64 }

// The measures of the picture, in pixels.
const (
	left, right = 76, 92
	rowHeight   = 26
	rowGap      = 5
	headHeight  = 60 // above the legend
	legendLine  = 21
	axisHeight  = 34
	curveHeight = 130
	curveHead   = 40
	foot        = 18
)

// The colours: dark text on light ground, every pair well above the contrast that WCAG's AA asks for.
const (
	ink, faint, rule, idle = "#1f2328", "#57606a", "#d8dee4", "#f0f2f5"
)

// painter writes one grid.
type painter struct {
	g      *Grid
	w      *bufio.Writer
	width  int
	end    float64 // the time at the right edge
	scale  float64 // pixels a second
	head   int     // where the rows begin
	height int
}

// WriteSVG draws the grid.
func (g *Grid) WriteSVG(w io.Writer) error {
	if err := g.check(); err != nil {
		return err
	}
	p := &painter{g: g, w: bufio.NewWriter(w), width: g.Width}
	boxes := 0
	for _, r := range g.Rows {
		boxes = max(boxes, len(r.Boxes))
		for _, b := range r.Boxes {
			p.end = max(p.end, b.End)
		}
	}
	if p.width == 0 {
		p.width = min(max(960, left+right+16*boxes), 8000)
	}
	if p.end == 0 {
		p.end = 1
	}
	p.scale = float64(p.width-left-right) / p.end
	p.head = headHeight + legendLine*p.legend(func(int, float64, int) {}) + 4
	p.height = p.head + len(g.Rows)*(rowHeight+rowGap) + axisHeight + foot
	if len(g.Curves) > 0 {
		p.height += curveHead + curveHeight
	}
	p.paint()
	return p.w.Flush()
}

// check refuses what cannot be drawn.
func (g *Grid) check() error {
	if g.Width < 0 || g.Width > 0 && g.Width < left+right+100 {
		return fmt.Errorf("grid: width %d: want at least %d, or zero", g.Width, left+right+100)
	}
	for _, r := range g.Rows {
		for _, b := range r.Boxes {
			if !finite(b.Start) || !finite(b.End) || b.Start < 0 || b.End < b.Start {
				return fmt.Errorf("grid: row %s: box %s from %v to %v: want times in order", r.Name, b.Text, b.Start,
					b.End)
			}
			if b.Class < 0 || b.Class >= len(g.Classes) {
				return fmt.Errorf("grid: row %s: box %s of class %d: there are %d", r.Name, b.Text, b.Class,
					len(g.Classes))
			}
		}
	}
	for _, c := range g.Curves {
		for _, at := range c.Points {
			if !finite(at.Time) || !finite(at.Value) {
				return fmt.Errorf("grid: curve %s: %v at %v: want finite numbers", c.Name, at.Value, at.Time)
			}
		}
	}
	return nil
}

func (p *painter) paint() {
	p.f(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %d" role="img" aria-labelledby="t">`+"\n", p.width, p.height, p.height)
	p.f("<title id=\"t\">%s</title>\n", escape(p.g.Title))
	p.f(`<style>text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:%s;font-variant-numeric:tabular-nums}`, ink)
	p.f(`.h{font-size:17px;font-weight:600}.s{font-weight:600}.n{fill:%s}.c{font-size:10.5px;text-anchor:middle}.e{text-anchor:end}.m{text-anchor:middle}`, faint)
	for i, c := range p.g.Classes {
		p.f(".k%d{fill:%s;stroke:%s}", i, escape(c.Fill), darker(c.Fill))
	}
	p.f("</style>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", p.width, p.height)
	p.f("<text class=\"h\" x=\"%d\" y=\"30\">%s</text>\n", left, escape(p.g.Title))
	p.f("<text class=\"n\" x=\"%d\" y=\"49\">%s</text>\n", left, escape(p.g.Note))
	p.legend(func(i int, x float64, line int) {
		y := headHeight + legendLine*line
		p.f("<rect class=\"k%d\" x=\"%.1f\" y=\"%d.5\" width=\"13\" height=\"13\" rx=\"2\"/>", i, x+.5, y)
		p.f("<text x=\"%.1f\" y=\"%d\">%s</text>\n", x+19, y+11, escape(p.g.Classes[i].Name))
	})
	y := p.head
	for _, r := range p.g.Rows {
		p.row(r, y)
		y += rowHeight + rowGap
	}
	p.axis(y)
	if len(p.g.Curves) > 0 {
		p.curves(y + axisHeight + curveHead)
	}
	p.f("</svg>\n")
}

func (p *painter) f(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

// x returns where a time is, to a hundredth of a pixel.
func (p *painter) x(t float64) float64 { return math.Round((left+t*p.scale)*100) / 100 }

// legend gives each class its place, line by line, and says how many lines there are.
func (p *painter) legend(place func(class int, x float64, line int)) int {
	x, line := float64(left), 0
	for i, c := range p.g.Classes {
		width := 19 + textWidth(c.Name, 12) + 18
		if x+width > float64(p.width) && x > left {
			x, line = left, line+1
		}
		place(i, x, line)
		x += width
	}
	return line + 1
}

func (p *painter) row(r Row, y int) {
	p.f("<text class=\"e\" x=\"%d\" y=\"%d\">%s</text>\n", left-10, y+rowHeight/2+4, escape(r.Name))
	p.f("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", left, y, p.width-left-right,
		rowHeight, idle)
	for _, b := range r.Boxes {
		p.box(b, y)
	}
	p.f("<text class=\"n\" x=\"%d\" y=\"%d\">%s</text>\n", p.width-right+10, y+rowHeight/2+4, escape(r.Note))
}

func (p *painter) box(b Box, y int) {
	top, height, size := float64(y), float64(rowHeight), 10.5
	if b.Lane != Whole {
		height, size = height/2, 9
	}
	if b.Lane == Lower {
		top += height
	}
	x := p.x(b.Start)
	width := math.Round((p.x(b.End)-x)*100) / 100
	// The stroke is inside the box, so that neighbours do not cover each other's.
	p.f(`<rect class="k%d" x="%v" y="%v" width="%v" height="%v">`, b.Class, x+.5, top+.5,
		max(math.Round((width-1)*100)/100, .2), height-1)
	if b.Tip != "" {
		p.f("<title>%s</title>", escape(b.Tip))
	}
	p.f("</rect>")
	if textWidth(b.Text, size)+2 <= width {
		style := ""
		if b.Lane != Whole {
			style = ` style="font-size:9px"`
		}
		p.f(`<text class="c"%s x="%v" y="%v">%s</text>`, style, math.Round((x+width/2)*100)/100,
			top+height/2+size*.36, escape(b.Text))
	}
	p.f("\n")
}
