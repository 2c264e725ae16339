package comm

import "github.com/galley-ml/galley/array"

// Parcel is a box of a member's array that is sent to a member in another process. Only one of the two arrays
// is in this process.
type Parcel struct {
	// Source and Target are the slots of the two members.
	Source, Target int

	src, dst place
	box      typ
}

// Bytes returns the size of the box.
func (p *Parcel) Bytes() int { return p.box.bytes() }

// Contents identifies the data of a parcel. Parcels of one rendezvous with equal Contents hold the same data,
// so one message serves all targets in the same process.
type Contents struct{ source, dim, at int }

// Contents returns the identity of the parcel's data.
func (p *Parcel) Contents() Contents { return Contents{p.Source, p.src.dim, p.src.at} }

// end returns the place of the box in this process.
func (p *Parcel) end() place {
	if p.src.array.IsValid() {
		return p.src
	}
	return p.dst
}

// Direct returns the box's memory, if it is contiguous.
func (p *Parcel) Direct() ([]byte, bool) {
	end, n := p.end(), p.Bytes()
	shape := end.array.Shape()
	if shape[end.dim] != p.box.shape[end.dim] && array.Shape(shape[:end.dim]).Len() > 1 {
		return nil, false
	}
	from := end.at * shape.Strides()[end.dim] * p.box.dtype.Size()
	return end.array.Bytes()[from : from+n : from+n], true
}

// Pack copies the box from the operand to buffer.
func (p *Parcel) Pack(buffer []byte) {
	packed := array.View(p.box.dtype, p.box.shape, buffer)
	newMove(packed, 0, 0, p.src.array, p.src.dim, p.src.at, p.box).do(nil, 0, len(buffer))
}

// Unpack copies the box from buffer to its place in the result.
func (p *Parcel) Unpack(buffer []byte) {
	packed := array.View(p.box.dtype, p.box.shape, buffer)
	newMove(p.dst.array, p.dst.dim, p.dst.at, packed, 0, 0, p.box).do(nil, 0, len(buffer))
}
