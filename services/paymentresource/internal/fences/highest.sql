SELECT coalesce(max(fence), 0) FROM account
