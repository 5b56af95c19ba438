"""Only a policy shows in the options, in the choices and in the record."""

# %%
answer = {
    "fold='eager'": [],
    "routing=FewerExperts()": ["unasked", "unnatural", "undrafted"],
    "fault='gdn_no_rewind'": ["unasked"],
    "three drafts": ["undrafted"],
}
