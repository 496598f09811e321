-- The name under which the path of a file, or the label of an item, f is found, as
-- store.TrailName has it.
translate(left(regexp_replace(f.path, '^.*/', ''), 200), 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')
