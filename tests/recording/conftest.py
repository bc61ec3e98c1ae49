from tests.support import profiles

profiles.load()
