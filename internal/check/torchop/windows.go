package torchop

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/op"
)

// windows returns convolutions, poolings and other ops that slide a window over an image.
func windows() map[string]builder {
	t := map[string]builder{
		"conv1d": conv(op.Conv1D, 1), "conv2d": conv(op.Conv2D, 2), "conv3d": conv(op.Conv3D, 3),
		"conv_transpose1d": convTranspose(op.ConvTranspose1D),
		"conv_transpose2d": convTranspose(op.ConvTranspose2D),
		"conv_transpose3d": convTranspose(op.ConvTranspose3D),
		"max_pool1d":       maxPool(op.MaxPool1D), "max_pool2d": maxPool(op.MaxPool2D),
		"max_pool3d": maxPool(op.MaxPool3D),
		"avg_pool1d": avgPool(op.AvgPool1D), "avg_pool2d": avgPool(op.AvgPool2D),
		"avg_pool3d": avgPool(op.AvgPool3D),
		"unfold":     unfold, "fold": fold, "interpolate": interpolate, "upsample": interpolate,
	}
	for n := 1; n <= 3; n++ {
		t[fmt.Sprintf("adaptive_avg_pool%dd", n)] = adaptive(op.AdaptiveAvgPool, n)
		t[fmt.Sprintf("adaptive_max_pool%dd", n)] = adaptive(op.AdaptiveMaxPool, n)
		t[fmt.Sprintf("lp_pool%dd", n)] = lpPool([]func(*op.Tensor, op.PoolConfig) *op.Tensor{op.AvgPool1D,
			op.AvgPool2D,
			op.AvgPool3D}[n-1])
	}
	return t
}

type convolution func(x, w, bias *op.Tensor, c op.ConvConfig) *op.Tensor

// conv accepts padding as numbers, or as "valid" and "same".
func conv(f convolution, spatial int) builder {
	return func(a *attrs) Func {
		c := op.ConvConfig{Stride: a.ints("stride"), Dilation: a.ints("dilation"), Groups: a.int("groups", 1)}
		same := string(a.raw["padding"]) == `"same"`
		if same || string(a.raw["padding"]) == `"valid"` {
			delete(a.raw, "padding")
		}
		c.Padding = a.ints("padding")
		return liftSome(2, 3, func(in []*op.Tensor) *op.Tensor {
			x := in[0]
			if same && x.Err() == nil && in[1].Err() == nil {
				x = padSame(x, in[1].Shape()[2:], c.Dilation, spatial)
			}
			return f(x, in[1], in[2], c)
		})
	}
}

// padSame pads x with zeros so that a convolution keeps its size, with one more at the end if their number is
// odd.
func padSame(x *op.Tensor, kernel, dilation []int, spatial int) *op.Tensor {
	low, high := []int{0, 0}, []int{0, 0}
	for d := range spatial {
		by := 1
		if len(dilation) > 0 {
			by = dilation[min(d, len(dilation)-1)]
		}
		total := by * (kernel[d] - 1)
		low, high = append(low, total/2), append(high, total-total/2)
	}
	return op.Pad(x, low, high, 0)
}

func convTranspose(f convolution) builder {
	return func(a *attrs) Func {
		c := op.ConvConfig{Stride: a.ints("stride"), Padding: a.ints("padding"), Dilation: a.ints("dilation"),
			OutputPadding: a.ints("output_padding"), Groups: a.int("groups", 1)}
		return liftSome(2, 3, func(in []*op.Tensor) *op.Tensor { return f(in[0], in[1], in[2], c) })
	}
}

type pooling func(x *op.Tensor, c op.PoolConfig) *op.Tensor

func (a *attrs) pool() op.PoolConfig {
	return op.PoolConfig{Kernel: a.ints("kernel", "kernel_size"), Stride: a.ints("stride"),
		Padding: a.ints("padding"),
		Ceil:    a.bool("ceil_mode", false)}
}

func maxPool(f pooling) builder {
	return func(a *attrs) Func {
		a.never("return_indices")
		c := a.pool()
		if c.Dilation = a.ints("dilation"); !slices.ContainsFunc(c.Dilation, func(n int) bool { return n != 1 }) {
			c.Dilation = nil
		}
		return lift1(func(x *op.Tensor) *op.Tensor { return f(x, c) })
	}
}

func avgPool(f pooling) builder {
	return func(a *attrs) Func {
		c := a.pool()
		c.ExcludePadding = !a.bool("count_include_pad", true)
		c.Divisor = a.float("divisor_override", 0)
		return lift1(func(x *op.Tensor) *op.Tensor { return f(x, c) })
	}
}

// lpPool returns the norm of order p of each window.
func lpPool(f pooling) builder {
	return func(a *attrs) Func {
		p, c := a.float("norm_type", a.float("p", 2)), a.pool()
		return lift1(func(x *op.Tensor) *op.Tensor {
			if x.Err() != nil {
				return x
			}
			size := 1
			for d := range len(x.Shape()) - 2 {
				size *= c.Kernel[min(d, len(c.Kernel)-1)]
			}
			sums := op.MulScalar(f(op.Pow(x, p), c), float64(size))
			return op.Pow(op.Mul(op.Sign(sums), op.ReLU(op.Abs(sums))), 1/p)
		})
	}
}

func adaptive(f func(x *op.Tensor, size ...int) *op.Tensor, spatial int) builder {
	return func(a *attrs) Func {
		a.never("return_indices")
		size := a.ints("output_size")
		if len(size) == 1 {
			size = slices.Repeat(size, spatial)
		}
		return lift1(func(x *op.Tensor) *op.Tensor { return f(x, size...) })
	}
}

func (a *attrs) window() op.ConvConfig {
	return op.ConvConfig{Stride: a.ints("stride"), Padding: a.ints("padding"), Dilation: a.ints("dilation")}
}

func unfold(a *attrs) Func {
	kernel, c := a.ints("kernel_size", "kernel"), a.window()
	return lift1(func(x *op.Tensor) *op.Tensor { return op.Unfold(x, kernel, c) })
}

func fold(a *attrs) Func {
	size, kernel, c := a.ints("output_size"), a.ints("kernel_size", "kernel"), a.window()
	if len(size) == 1 {
		size = slices.Repeat(size, 2)
	}
	return lift1(func(x *op.Tensor) *op.Tensor { return op.Fold(x, size, kernel, c) })
}

// interpolate accepts sizes, or factors by which sizes are multiplied and rounded down.
func interpolate(a *attrs) Func {
	size, scale := a.ints("size"), a.floats("scale_factor")
	mode := a.oneOf("mode", "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area")
	c := op.InterpolateConfig{Mode: mode, AlignCorners: a.bool("align_corners", false)}
	again := a.bool("recompute_scale_factor", false)
	a.never("antialias")
	switch mode {
	case "bilinear", "trilinear":
		c.Mode = "linear"
	case "bicubic":
		c.Mode = "cubic"
	}
	return lift1(func(x *op.Tensor) *op.Tensor {
		c := c
		if c.Size = size; size == nil && x.Err() == nil {
			for d := range len(x.Shape()) - 2 {
				by := 1.0
				if len(scale) > 0 {
					by = scale[min(d, len(scale)-1)]
				}
				c.Size = append(c.Size, int(math.Floor(float64(x.Dim(d+2))*by)))
				if !again {
					c.Scale = append(c.Scale, by)
				}
			}
		}
		return op.Interpolate(x, c)
	})
}
