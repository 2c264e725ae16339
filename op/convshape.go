package op

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ConvConfig holds the parameters of a convolution. A list of one number applies to all dims.
type ConvConfig struct {
	// Stride is the step of the kernel; nil means 1.
	Stride []int
	// Padding is the number of zeros before and after the input; nil means 0.
	Padding []int
	// Dilation is the distance between the kernel's elements; nil means 1.
	Dilation []int
	// OutputPadding, for transposed convolutions only, is added at the end of the result; it is less than the
	// stride, and nil means 0. It selects one of the sizes that the convolution maps to the operand's size.
	OutputPadding []int
	// Groups is the number of groups into which the channels are divided, each convolved by itself; 0 means 1.
	Groups int
}

// perDim returns n numbers from a list of n, from one number for all dims, or from none, which means usual.
func perDim(list []int, n, usual int) []int {
	switch len(list) {
	case 0:
		return slices.Repeat([]int{usual}, n)
	case 1:
		return slices.Repeat(list, n)
	}
	return list
}

// maxWindow bounds the parameters of windows and the dims that they move over, so that products of two of
// them do not overflow.
const maxWindow = math.MaxInt32

// convShape holds the sizes of a convolution over three dims; with fewer, the first dims have size one.
type convShape struct {
	spatial                              int
	n, groups                            int
	cin, cout                            int // per group
	in, out, kernel, stride, pad, dilate [3]int
}

// newConvShape checks the attributes that the three ops of a convolution share.
func newConvShape(stride, pad, dilate []int, groups int) (*convShape, error) {
	s := &convShape{spatial: len(stride), groups: max(groups, 1)}
	if groups < 0 || groups > maxWindow {
		return nil, fmt.Errorf("groups %d: want 0 or 1 for one, or more up to %d", groups, maxWindow)
	}
	if s.spatial < 1 || s.spatial > 3 || len(pad) != s.spatial || len(dilate) != s.spatial {
		return nil, fmt.Errorf("stride %v, padding %v and dilation %v: want one number for each of 1, 2 or 3 dims",
			stride, pad, dilate)
	}
	for d := range s.spatial {
		if stride[d] < 1 || dilate[d] < 1 || pad[d] < 0 || max(stride[d], dilate[d], pad[d]) > maxWindow {
			return nil, fmt.Errorf("stride %v, padding %v and dilation %v: want positive strides and dilations, "+
				"and none over %d",
				stride, pad, dilate, maxWindow)
		}
	}
	s.stride, s.pad, s.dilate = three(stride, 1), three(pad, 0), three(dilate, 1)
	return s, nil
}

// setInput takes sizes from the input's shape; setKernel and setOutput from those of kernel and output.
func (s *convShape) setInput(n, channels int, size []int) error {
	if channels%s.groups != 0 {
		return fmt.Errorf("%d input channels do not divide into %d groups", channels, s.groups)
	}
	s.n, s.cin, s.in = n, channels/s.groups, three(size[len(size)-s.spatial:], 1)
	return nil
}

func (s *convShape) setKernel(channels int, size []int) error {
	if channels%s.groups != 0 {
		return fmt.Errorf("%d output channels do not divide into %d groups", channels, s.groups)
	}
	s.cout, s.kernel = channels/s.groups, three(size[len(size)-s.spatial:], 1)
	return nil
}

// setOutput derives the output's size.
func (s *convShape) setOutput() error {
	for d := range s.out {
		if s.in[d] < 0 || max(s.in[d], s.kernel[d]) > maxWindow {
			return fmt.Errorf("kernel %v on input %v: want dims between 0 and %d", s.kernel, s.in, maxWindow)
		}
		reach := s.dilate[d]*(s.kernel[d]-1) + 1
		room := s.in[d] + 2*s.pad[d] - reach
		if s.in[d] == 0 && s.pad[d] == 0 && s.kernel[d] == 1 { // a shard without elements of the image
			s.out[d] = 0
			continue
		}
		if room < 0 || s.kernel[d] < 1 {
			return fmt.Errorf("kernel %v, dilated by %v, does not fit the input %v padded by %v", s.kernel, s.dilate,
				s.in, s.pad)
		}
		s.out[d] = room/s.stride[d] + 1
	}
	return nil
}

func (s *convShape) dims(of [3]int) []int { return of[3-s.spatial:] }

func (s *convShape) inputShape() array.Shape {
	return append(array.Shape{s.n, s.groups * s.cin}, s.dims(s.in)...)
}

func (s *convShape) outputShape() array.Shape {
	return append(array.Shape{s.n, s.groups * s.cout}, s.dims(s.out)...)
}

func (s *convShape) kernelShape() array.Shape {
	return append(array.Shape{s.groups * s.cout, s.cin}, s.dims(s.kernel)...)
}

// work returns the cost of each of the three ops: one multiply-add for each kernel element and output.
func (s *convShape) work(in, out []Type) Work {
	return Work{Flops: 2 * float64(s.outputShape().Len()) * float64(s.patch()), Bytes: moved(in, out)}
}

// patch returns the number of input elements of one group that an output depends on; places is the number of
// outputs of one channel.
func (s *convShape) patch() int  { return s.cin * s.taps() }
func (s *convShape) places() int { return s.outRows() * s.out[2] }

// taps returns the number of kernel elements of one channel, plane that of input elements, outRows that of
// output rows.
func (s *convShape) taps() int    { return s.kernel[0] * s.kernel[1] * s.kernel[2] }
func (s *convShape) plane() int   { return s.in[0] * s.in[1] * s.in[2] }
func (s *convShape) outRows() int { return s.out[0] * s.out[1] }

// pointwise reports whether the patches are the input itself, in its own layout.
func (s *convShape) pointwise() bool {
	one, zero := [3]int{1, 1, 1}, [3]int{}
	return s.kernel == one && s.stride == one && s.pad == zero
}

// words names the factors of input, kernel and output. Batch, groups and channels may be split, and so may
// dims along which windows do not overlap.
func (s *convShape) words() (x, w, y string) {
	x, w, y = "nC", "OC", "nO"
	if s.groups > 1 {
		x, w, y = "n(GC)", "(GO)C", "n(GO)"
	}
	for i := range s.spatial {
		d := len(s.in) - s.spatial + i
		in, kernel, out := letters[i:i+1]+"*", letters[3+i:4+i]+"*", letters[6+i:7+i]
		switch {
		case !s.sideBySide(d):
			out += "*"
		case s.kernel[d] == 1:
			in = out
		default:
			in = "(" + out + kernel + ")"
		}
		x, w, y = x+in, w+kernel, y+out
	}
	return x, w, y
}

// follow is like words for inference: a dim of the input is the product of the windows' positions and those
// within a window, the larger one first. If windows overlap, splitting it exchanges elements between
// neighbours.
func (s *convShape) follow() (mesh.Rule, string) {
	x, w, y := "nC", "OC", "nO"
	notes, moves := "", ""
	if s.groups > 1 {
		x, w, y, notes = "n(GC)", "(GO)C", "n(GO)", fmt.Sprintf(" G=%d C=%d O=%d", s.groups, s.cin, s.cout)
	}
	for i := range s.spatial {
		d := len(s.in) - s.spatial + i
		place, within := letters[6+i:7+i], letters[3+i:4+i]
		major, minor, size := place, within, s.out[d]
		if s.kernel[d] > s.out[d] {
			major, minor, size = within, place, s.kernel[d]
		}
		x, w, y = x+"("+major+minor+")", w+within, y+place
		notes += fmt.Sprintf(" %s=%d %s=%d", major, size, minor, max(1, s.in[d]/max(1, size)))
		if !s.sideBySide(d) {
			moves += place
		}
	}
	return mesh.Rule(x + "," + w + "->" + y + ";" + notes), moves
}

// sideBySide reports whether windows do not overlap along dim d, so that every input belongs to one output.
func (s *convShape) sideBySide(d int) bool {
	return s.pad[d] == 0 && s.stride[d] == s.kernel[d] && (s.dilate[d] == 1 || s.kernel[d] == 1) &&
		s.in[d] == s.out[d]*s.kernel[d]
}

// localGroups returns the number of groups on a device.
func localGroups(at *Place, groups int) int {
	if f := at.Rule.Index('G'); f >= 0 {
		return at.Ranges[f].Size
	}
	return groups
}

func (s *convShape) rule(in string, out string) mesh.Rule {
	x, w, y := s.words()
	names := strings.NewReplacer("x", x, "w", w, "y", y)
	notes := ""
	if s.groups > 1 {
		notes = fmt.Sprintf("; G=%d", s.groups)
	}
	return mesh.Rule(names.Replace(in) + "->" + names.Replace(out) + notes)
}

func wantImages(in []Type) error {
	if err := wantFloats(in, 2); err != nil {
		return err
	}
	for _, t := range in {
		if len(t.Shape) != len(in[0].Shape) {
			return fmt.Errorf("operands differ in rank: got %v and %v", in[0], in[1])
		}
	}
	if len(in[0].Shape) < 3 {
		return errors.New("want batch, channels and at least one more dim: got " + in[0].String())
	}
	return nil
}

// hloConv holds the attributes of a StableHLO convolution for each dim, and the order of the dims.
type hloConv struct {
	stride, low, high, dilateIn, dilateKernel []int
	reversed                                  bool
	layout                                    [3]string // input, kernel, output: "bf", "oi", "bf"
	featureGroups, batchGroups                int
}

func (c hloConv) emit(w *hlo.Writer, x, kernel hlo.Ref, out Type) hlo.Ref {
	n := len(c.stride)
	reversal := strings.Join(slices.Repeat([]string{fmt.Sprint(c.reversed)}, n), ", ")
	attrs := fmt.Sprintf("window_strides = %s, padding = %s, lhs_dilation = %s, rhs_dilation = %s, "+
		"window_reversal = array<i1: %s>, "+
		"dimension_numbers = #stablehlo.conv<%sx%s->%s>, feature_group_count = %d : i64, batch_group_count = %d "+
		": i64, %s",
		hlo.Ints(c.stride), hloPadding(c.low, c.high), hlo.Ints(c.dilateIn), hlo.Ints(c.dilateKernel), reversal,
		convLayout(c.layout[0], n), convLayout(c.layout[1], n), convLayout(c.layout[2], n), max(c.featureGroups,
			1), max(c.batchGroups, 1), hlo.Precision(x.DType))
	return w.Op("convolution", attrs, hloType(out), x, kernel)
}

// convLayout returns a layout such as "bf" with two spatial dims as [b, f, 0, 1].
func convLayout(pair string, spatial int) string {
	words := strings.Split(pair, "")
	for i := range spatial {
		words = append(words, fmt.Sprint(i))
	}
	return "[" + strings.Join(words, ", ") + "]"
}
