package op

// ConvTranspose1D spreads x [batch, channels, length] out through kernel [channels, out channels per group, size], the
// transpose of Conv1D, and adds bias, a vector of out channels, unless it is nil. Padding is cut off the result.
func ConvTranspose1D(x, kernel, bias *Tensor, c ConvConfig) *Tensor {
	return spread(x, kernel, bias, c, 1)
}

// ConvTranspose2D is ConvTranspose1D over two dims.
func ConvTranspose2D(x, kernel, bias *Tensor, c ConvConfig) *Tensor {
	return spread(x, kernel, bias, c, 2)
}

// ConvTranspose3D is ConvTranspose1D over three dims.
func ConvTranspose3D(x, kernel, bias *Tensor, c ConvConfig) *Tensor {
	return spread(x, kernel, bias, c, 3)
}

func spread(x, kernel, bias *Tensor, c ConvConfig, spatial int) *Tensor {
	o := convInputGrad{
		Stride: perDim(c.Stride, spatial, 1), Padding: perDim(c.Padding, spatial, 0), Dilation: perDim(c.Dilation, spatial, 1),
		Groups: max(c.Groups, 1), Size: make([]int, spatial),
	}
	if x.Err() == nil && kernel.Err() == nil && len(x.Shape()) == spatial+2 && len(kernel.Shape()) == spatial+2 {
		for d := range spatial {
			reach := o.Dilation[d]*(kernel.Dim(2+d)-1) + 1
			o.Size[d] = (x.Dim(2+d)-1)*o.Stride[d] + reach - 2*o.Padding[d]
		}
	}
	return addChannels(apply1(o, x, kernel), bias)
}
