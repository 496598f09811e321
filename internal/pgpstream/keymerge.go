package pgpstream

// Merge returns the key with what another form of the same key has besides: its
// signatures, user ids and subkeys. Where both have a private part, that of k counts.
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
