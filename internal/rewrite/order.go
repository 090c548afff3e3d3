package rewrite

// byAddress brings frames into the order of their addresses, so that what is looked up
// one after the other lies side by side in memory. Only the lower half of an address
// counts: the order is of no other use, and kernel code spans little more.
type byAddress struct {
	order, next []int32
}

// sort returns the positions of the frames in the order of their addresses.
//
// It is a radix sort, least significant digit first: comparing would take as
// long as the disorder costs.
func (o *byAddress) sort(frames []frame) []int32 {
	const (
		digitBits = 11
		digits    = 3
		mask      = 1<<digitBits - 1
	)
	n := len(frames)
	o.order, o.next = resized(o.order, n), resized(o.next, n)
	var counts [digits][mask + 1]int32
	for i := range frames {
		o.order[i] = int32(i)
		addr := frames[i].addr
		for d := range counts {
			counts[d][addr>>(d*digitBits)&mask]++
		}
	}
	for d := range counts {
		at := int32(0)
		for digit, count := range counts[d] {
			counts[d][digit] = at
			at += count
		}
		for _, i := range o.order {
			digit := frames[i].addr >> (d * digitBits) & mask
			o.next[counts[d][digit]] = i
			counts[d][digit]++
		}
		o.order, o.next = o.next, o.order
	}
	return o.order
}
