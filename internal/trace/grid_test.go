package trace

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

func sample() *Grid {
	return &Grid{
		Title: "a < b & \x01c", Note: "note",
		Classes: []Class{{"forward", "#8ec5f0"}, {"backward", "#f2a65a"}},
		Rows: []Row{
			{Name: "rank 0", Note: "50% idle", Boxes: []Box{{0, 1e-3, "0", "tip", 0, Whole}, {2e-3, 4e-3, "0", "", 1,
				Whole}}},
			{Name: "rank 1", Boxes: []Box{{1e-3, 2e-3, "1", "", 0, Upper}, {1e-3, 2e-3, "2", "", 1, Lower}, {2e-3,
				2e-3, "long", "", 1, Whole}}},
		},
		CurveTitle: "held",
		Curves:     []Curve{{"rank 0", []Point{{0, 0}, {1e-3, 3 << 20}}}, {"rank 1", nil}},
	}
}

// shapes reads an SVG and lists its elements.
func shapes(t *testing.T, text []byte) []xml.StartElement {
	t.Helper()
	var out []xml.StartElement
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if e, ok := tok.(xml.StartElement); ok {
			out = append(out, e)
		}
	}
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestSVG(t *testing.T) {
	g := sample()
	var b bytes.Buffer
	if err := g.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	boxes := 0
	var width, height float64
	for _, e := range shapes(t, b.Bytes()) {
		num := func(name string) float64 {
			v, err := strconv.ParseFloat(attr(e, name), 64)
			if attr(e, name) != "" && err != nil {
				t.Errorf("%s %s=%q", e.Name.Local, name, attr(e, name))
			}
			return v
		}
		if e.Name.Local == "svg" {
			width, height = num("width"), num("height")
		}
		if e.Name.Local == "rect" {
			if x, y := num("x")+num("width"), num("y")+num("height"); x > width || y > height || num("width") <= 0 {
				t.Errorf("a box outside of the picture, or empty: %v", e.Attr)
			}
		}
		if strings.HasPrefix(attr(e, "class"), "k") {
			boxes++
		}
	}
	if boxes != len(g.Classes)+5 {
		t.Errorf("%d boxes, want five and a legend of two", boxes)
	}
	for _, want := range []string{">a &lt; b &amp; \ufffdc<", ">50% idle<", ">2 MiB<", ">ms<",
		"<title>tip</title>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if strings.Contains(b.String(), ">long<") {
		t.Error("a text wider than its box is shown")
	}
}

func TestSVGOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := new(Grid).WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	shapes(t, b.Bytes())
}

func TestSVGRefuses(t *testing.T) {
	for want, change := range map[string]func(g *Grid){
		"times in order": func(g *Grid) { g.Rows[0].Boxes[0].Start = 2 },
		"of class 7":     func(g *Grid) { g.Rows[0].Boxes[0].Class = 7 },
		"finite":         func(g *Grid) { g.Curves[0].Points[0].Value = math.Inf(1) },
		"width 20":       func(g *Grid) { g.Width = 20 },
	} {
		g := sample()
		change(g)
		if err := g.WriteSVG(io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := sample().WriteSVG(&full{}); err == nil {
		t.Error("a full disk is no error")
	}
}

// TestContrast holds the text to the contrast of WCAG's AA on every fill of the tests' classes and on the
// ground.
func TestContrast(t *testing.T) {
	for _, c := range []struct{ text, ground string }{{ink, "#ffffff"}, {faint, "#ffffff"}, {ink, idle},
		{ink, "#8ec5f0"}, {ink, "#f2a65a"}, {ink, "#d3bdea"}} {
		if r := (luminance(c.ground) + 0.05) / (luminance(c.text) + 0.05); r < 4.5 {
			t.Errorf("%s on %s has contrast %.1f, want 4.5", c.text, c.ground, r)
		}
	}
}

func luminance(colour string) float64 {
	sum := 0.0
	for i, v := range rgb(colour) {
		v /= 255
		if v <= 0.03928 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += v * []float64{0.2126, 0.7152, 0.0722}[i]
	}
	return sum
}

func TestSeconds(t *testing.T) {
	for x, want := range map[float64]string{0: "0 ns", 2.55e-2: "25.5 ms", 1: "1 s", 3.2e-7: "320 ns",
		1e-12: "0.001 ns", 90: "90 s"} {
		if got := Seconds(x); got != want {
			t.Errorf("%v: got %s, want %s", x, got, want)
		}
	}
}
