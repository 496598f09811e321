package httpapi

import "encoding/json"

// How much a page is read in, and how long it gets: rows of a store can have megabytes.
const (
	partSize    = 16      // entries that are read at once, where each can be large
	maxPageSize = 8 << 20 // bytes of a page: it ends with the entry that reaches them
)

// inParts reads a page of up to limit entries behind after, size of them at once, and keeps
// their JSON alone, so that it takes as much memory as the answer and one part. The page ends
// early if it has [maxPageSize] bytes. Read returns entries, and behind which one there may be
// more; key is what an entry is read behind, and view the form that is sent. The zero key
// stands for no further entries.
func inParts[K comparable, T any](limit, size int, after K, read func(after K, limit int) ([]T, K, error), key func(*T) K, view func(*T) any) (items []json.RawMessage, next K, err error) {
	var none K
	for n := 0; ; {
		list, behind, err := read(after, min(size, limit-len(items)))
		if err != nil {
			return nil, none, err
		}
		for i := range list {
			text, err := json.Marshal(view(&list[i]))
			if err != nil {
				return nil, none, err
			}
			items = append(items, text)
			if n += len(text); n >= maxPageSize && (i < len(list)-1 || behind != none) {
				return items, key(&list[i]), nil
			}
		}
		if after = behind; behind == none || len(items) >= limit {
			return items, behind, nil
		}
	}
}

// fullPage returns a page of a store as [inParts] takes it: there may be more behind it if it
// has as many entries as were asked for.
func fullPage[K comparable, T any](list []T, limit int, key func(*T) K) (all []T, next K) {
	if len(list) == limit {
		next = key(&list[limit-1])
	}
	return list, next
}

// asIs is the view of entries that are sent as they are.
func asIs[T any](x *T) any { return x }
