package perfring

// losses counts the records that a ring had no room for. The kernel tells how many in
// the next record that fits, and since Linux 6.0 also when it is asked. Each is to be
// passed on once.
type losses struct {
	announced uint64 // in LOST records, by now
	told      uint64 // passed on, by now
}

// announce returns how many of n, which a LOST record tells of, are new.
func (l *losses) announce(n uint64) uint64 {
	l.announced += n
	return l.upTo(l.announced)
}

// upTo returns how many of all that were lost up to now are new.
func (l *losses) upTo(total uint64) uint64 {
	fresh := total - min(total, l.told)
	l.told += fresh
	return fresh
}
