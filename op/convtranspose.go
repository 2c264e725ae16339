package op

import "cmp"

// ConvTranspose1D applies the transpose of Conv1D to x [batch, channels, length] with kernel [channels, out
// channels per group, size] and adds bias, a vector of out channels, unless it is nil. Padding is cut off
// both ends of the result, and OutputPadding lengthens it.
func ConvTranspose1D(x, kernel, bias *Tensor, c ConvConfig) *Tensor {
	return spread(x, kernel, bias, c, 1)
}

// ConvTranspose2D is like ConvTranspose1D over two dims.
func ConvTranspose2D(x, kernel, bias *Tensor, c ConvConfig) *Tensor {
	return spread(x, kernel, bias, c, 2)
}

// ConvTranspose3D is like ConvTranspose1D over three dims.
func ConvTranspose3D(x, kernel, bias *Tensor, c ConvConfig) *Tensor {
	return spread(x, kernel, bias, c, 3)
}

func spread(x, kernel, bias *Tensor, c ConvConfig, spatial int) *Tensor {
	o := convInputGrad{
		Stride: perDim(c.Stride, spatial, 1), Padding: perDim(c.Padding, spatial, 0), Dilation: perDim(c.Dilation,
			spatial, 1),
		Groups: cmp.Or(c.Groups, 1), Size: make([]int, spatial),
	}
	_, err := newConvShape(o.Stride, o.Padding, o.Dilation, o.Groups)
	fits := err == nil && len(o.Stride) == spatial && x.Err() == nil && kernel.Err() == nil &&
		len(x.Shape()) == spatial+2 && len(kernel.Shape()) == spatial+2
	if !fits { // Infer reports it, with its place
		return apply1(o, x, kernel)
	}
	more := perDim(c.OutputPadding, spatial, 0)
	for d := range spatial {
		if len(more) != spatial || more[d] < 0 || more[d] >= o.Stride[d] {
			return refuse(x, "conv_transpose",
				"output padding %v: want one number a dim, from 0 to below the stride %v", more, o.Stride)
		}
		from, size := x.Dim(2+d), kernel.Dim(2+d)
		if from < 1 || size < 1 || max(from, size) > maxWindow {
			return refuse(x, "conv_transpose", "kernel %v on %v: want dims between 1 and %d", kernel.Type(), x.Type(),
				maxWindow)
		}
		o.Size[d] = (from-1)*o.Stride[d] + o.Dilation[d]*(size-1) + 1 - 2*o.Padding[d] + more[d]
		if o.Size[d] < 1 {
			return refuse(x, "conv_transpose", "padding %v of dim %d: got a result of size %d, want at least 1",
				o.Padding, 2+d, o.Size[d])
		}
	}
	return addChannels(apply1(o, x, kernel), bias)
}
