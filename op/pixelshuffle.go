package op

// PixelShuffle rearranges every factor² channels of x [batch, channels, height, width] into one channel that
// is factor times as high and as wide. [Shi et al. 2016]
func PixelShuffle(x *Tensor, factor int) *Tensor {
	if x.Err() != nil {
		return x
	}
	if len(x.Shape()) != 4 || factor < 1 || x.Dim(1)%(factor*factor) != 0 {
		return refuse(x, "pixel_shuffle", "%v: want channels that divide by %d·%d", x.Type(), factor, factor)
	}
	n, c, h, w := x.Dim(0), x.Dim(1)/(factor*factor), x.Dim(2), x.Dim(3)
	parts := Transpose(Reshape(x, n, c, factor, factor, h, w), 0, 1, 4, 2, 5, 3)
	return Reshape(parts, n, c, h*factor, w*factor)
}

// PixelUnshuffle returns the inverse of PixelShuffle.
func PixelUnshuffle(x *Tensor, factor int) *Tensor {
	if x.Err() != nil {
		return x
	}
	if len(x.Shape()) != 4 || factor < 1 || x.Dim(2)%factor != 0 || x.Dim(3)%factor != 0 {
		return refuse(x, "pixel_unshuffle", "%v: want a height and a width that divide by %d", x.Type(), factor)
	}
	n, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2)/factor, x.Dim(3)/factor
	parts := Transpose(Reshape(x, n, c, h, factor, w, factor), 0, 1, 3, 5, 2, 4)
	return Reshape(parts, n, c*factor*factor, h, w)
}
