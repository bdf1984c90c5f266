def _get_block_size_n(*arguments):
    raise NotImplementedError("asked for with dropout alone, which attnjit does not have")
