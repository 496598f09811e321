package pgpstream

// Merge returns the key with the additional signatures, user ids and subkeys of another form of
// the same key. If both have a private part, the private part of k is kept.
func (k *Key) Merge(other *Key) (*Key, error) {
	mine, err := k.sections()
	if err != nil {
		return nil, err
	}
	more, err := other.sections()
	if err != nil {
		return nil, err
	}
	data, err := writeSections(joinSections(mine, more), nil)
	if err != nil {
		return nil, err
	}
	return ParseKey(k.name, data)
}
